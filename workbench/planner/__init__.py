"""What a configuration counts and costs, without torch."""

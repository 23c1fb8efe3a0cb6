"""What leaves text out, each a stage of a build."""

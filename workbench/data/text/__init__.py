"""Where text comes from, and its words."""

"""Commands: parse, call one Lab method, print."""

"""What is in a corpus and what was left out of it: a page and a file, from its manifest alone."""

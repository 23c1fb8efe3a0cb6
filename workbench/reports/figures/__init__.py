"""Inline SVG drawn by hand: the same values give the same text, colours come from the page."""

"""Small runs that choose: recipes, search, sweep, ladder, selection."""

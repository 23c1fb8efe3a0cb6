"""Decision rules, intervals and forecast scores: numbers in, numbers out."""

"""One file a version of the tables. What was released is never edited, only followed."""

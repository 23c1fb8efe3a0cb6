"""The chronicle's sections: facts to blocks."""

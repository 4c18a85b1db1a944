"""One judge a kind of model, in a file of its name."""

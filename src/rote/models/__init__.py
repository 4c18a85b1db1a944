"""Models with given weights, their tokenizers and directories."""

"""Hashed tables: any labels of any keys, in the words of a table that an ordinary network looks up.

layout     what a network of given size looks like: every matrix, and so every parameter, counted beforehand
hashing    codes of tokens, and the bits of a key
rows       a trie that shares the keys out among the rows of the table
systems    the words of a row: linear systems over the integers modulo powers of two
tail       the layers that turn the words of a key into its label, unit by unit
network    all matrices, as plain arrays
memorise   all of it, in order
"""

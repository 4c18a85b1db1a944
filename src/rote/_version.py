"""The version and the name of the distribution, each in one place.

The package is imported and run as `rote`; that name on PyPI is a stranger's, so what pip installs is called otherwise.
"""

__version__ = "0.1.0"
DISTRIBUTION = "rote-transformers"

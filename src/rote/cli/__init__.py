"""The command line: one file per verb. Everything heavy is imported inside the commands."""

"""SQL of analysts: the sandbox, temporary objects and the interactive shell."""

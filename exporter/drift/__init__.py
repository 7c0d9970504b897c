"""What an engine's release prints, compared with what the rules know: `inferlog drift` and the compatibility page."""

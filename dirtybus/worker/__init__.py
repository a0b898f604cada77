"""The child process: loads the user's apps and almost nothing else."""

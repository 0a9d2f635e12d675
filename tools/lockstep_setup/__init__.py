"""Makes .venv, installs the course into it, and starts JupyterLab. Standard library only."""

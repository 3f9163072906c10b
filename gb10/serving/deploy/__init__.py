"""A service as files for other launchers: docker's script, compose, Kubernetes, systemd, Ansible, sparkrun. Pure."""

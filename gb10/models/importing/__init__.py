"""Recipes of other forms become recipes of version 2 with our section: vLLM's official files, profiles of Ansible."""

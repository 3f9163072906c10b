"""Verbs that ship an image: publish, pull."""

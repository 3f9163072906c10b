"""A handler of HTTP requests for servers of tests: it prints no line for each request."""

from http.server import BaseHTTPRequestHandler


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

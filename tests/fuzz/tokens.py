"""Pieces of text that a mutation puts into a document of a kind."""

from typing import Final

YAML_TOKENS: Final = (
    b"&a ",
    b"*a",
    b"!!int ",
    b"!!python/name:os.system",
    b"<<: ",
    b"? ",
    b"- ",
    b": ",
    b"[",
    b"{",
    b"|\n",
    b"\t",
    b"---\n",
    b"%YAML 1.1\n",
    b'"\\UFFFFFFFF"',
    b'"\\uD800"',
    b"0x" + b"f" * 40,
    b"1:59:59.5",
    b"2026-13-45",
    b".inf",
    b"=",
    b"((((",
)
JSON_TOKENS: Final = (b"null", b"[", b"{", b"1e999", b"-0", b'"\\ud800"', b'"\\u0000"', b"9" * 5000, b",", b'"":')
HTML_TOKENS: Final = (
    b'<a href="a-1.tar.gz">',
    b'<base href="file:///">',
    b"<!--",
    b"<![foo[",
    b"<!DOCTYPE",
    b"&#xFFFFFFFFF;",
    b"<script>",
    b'href="https://["',
    b'href="%00"',
)
DIFF_TOKENS: Final = (
    b"@@ -1,999999999999 +1 @@\n",
    b"@@ -0,0 +1 @@\n",
    b"@@ -1 +1,%s @@\n" % (b"9" * 5000),
    b"--- a/x\n+++ b/x\n",
    b"diff --git a/x b/x\n",
    b"GIT binary patch\n",
    b"rename from a\n",
    b"\\ No newline at end of file\n",
    b"+++ b/../../x\n",
    b'--- "a/\\303"\n',
    b"new file mode 120000\n",
    b"\xff\xfe",
    b"-",
    b"+",
)

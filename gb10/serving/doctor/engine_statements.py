"""The statements of any file of an engine, by its name: Python, C++ or CUDA. Pure."""

from gb10.serving.doctor.printed_statements import Statement, python_statements


def statements_of(text: str, file: str) -> tuple[Statement, ...]:
    """The statements of a file; none of one that its reader cannot read."""
    if file.endswith(".py"):
        return python_statements(text, file)
    from gb10.serving.doctor.cpp_statements import cpp_statements  # noqa: PLC0415 - 20 ms of a parser that few need

    return cpp_statements(text, file)

"""Bytes of pages -> text, by the Encoding and HTML standards that browsers follow."""

"""The pure core, exhaustively: no process, no file, no clock."""

"""Raw files to events: one module per format; nothing downstream is known here."""

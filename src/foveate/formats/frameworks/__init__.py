"""How agent frameworks write messages: as plain JSON, so that none of them is imported here."""

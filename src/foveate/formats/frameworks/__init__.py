"""Messages of agent frameworks as plain JSON, so that none of the frameworks is imported here."""

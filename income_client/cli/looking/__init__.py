"""What `application` shows, decided once and drawn on a terminal or as a page."""

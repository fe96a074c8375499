"""What the pages show, made of what the controller tells. Nothing here asks anybody, or knows of HTML."""

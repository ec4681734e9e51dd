"""The plane itself: settings, wiring, and what both apps stand on: teams, profiles, tokens, audit."""

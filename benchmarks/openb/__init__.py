"""Replays of traces in openb's format: servers, pods, the policies compared, with and without departures."""

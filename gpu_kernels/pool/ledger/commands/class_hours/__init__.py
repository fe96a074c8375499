"""Class hours: booked by people, opened and closed by the clock, sat on by members."""

"""Files, time, state and exposition: follows engine logs and serves what `parsers` makes of them."""

"""What answers at the addresses of the lab pages; `base` is common to all, `routes` lists them."""

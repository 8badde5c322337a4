"""What joins midstride to other libraries: each package here needs one, and nothing else imports it."""

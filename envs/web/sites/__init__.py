"""Three sites of our own: a shop, an issue tracker and a wiki with a forum, with tasks graded on their end state."""

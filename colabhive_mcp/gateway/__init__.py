"""The room of the Builder Gateway's wire: what is asked of it, what it answers, and when to ask again."""

"""What Python workers of one machine share. Optional: streams are the same without it."""

"""Label differential privacy: release labels, learn from them, and defend the epsilon."""

"""The Cascade Transformer (Soldaini & Moschitti, ACL 2020), its schedules and its guarantee."""

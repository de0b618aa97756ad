"""What does the portal do, seen once from the outside? A portal of its own, taken through its main job."""

"""What does a team see of itself? Its members, its pools and its quota."""

"""What stands behind the commands of ``python3 -m course_utils``."""

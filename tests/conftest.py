"""Fixtures that several files of tests use."""

from repositories import small_repository

__all__ = ["small_repository"]

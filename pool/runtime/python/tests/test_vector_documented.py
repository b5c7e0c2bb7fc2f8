"""The blocks of docs/functions.md that need a library, as they stand."""

import unittest

from test_documented import run_blocks
from test_vectors import VectorCase


class Documented(VectorCase):
    def test_every_block_with_a_library(self):
        self.assertEqual(run_blocks(self, lambda source: "pyarrow" in source), ["add"])


if __name__ == "__main__":
    unittest.main()

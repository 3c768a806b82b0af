"""The fractional packing of trees and paths: the most a cluster can carry, by column generation, with prices."""

"""Composition of schedules inside pods and between them (HeteCCL, section 7)."""

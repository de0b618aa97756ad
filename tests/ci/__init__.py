"""What `.ci/run` is made of besides commands: the table of its steps, and which parts of it a recent green run stands for."""

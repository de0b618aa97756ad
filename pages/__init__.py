"""What do the pages show that take more than one package to know?"""

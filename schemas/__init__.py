"""What a row is: tables, reasons, errors and the base of every settings class.

The lowest floor: it imports none of our packages, and every other package may import it.
"""

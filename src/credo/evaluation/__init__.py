"""What held-out rows say about a fitted table: measures, checks and curves as plain values, which JSON can hold."""

# incomes_by_state.py
# pip install duckdb
import duckdb

rows = duckdb.execute("""
    WITH incomes AS (
        SELECT application_id, applicant, year, sum(calculated_income_amount) AS income
        FROM 'tables/income_sources.parquet'
        GROUP BY ALL
    )
    SELECT current_state, year, count(*), avg(income)
    FROM incomes JOIN 'tables/applicants.parquet' USING (application_id, applicant)
    GROUP BY ALL
    ORDER BY ALL
""").fetchall()
for state, year, applicants, average in rows:
    print(f"{state} {year} {applicants} applicants {average:.2f} on average")
